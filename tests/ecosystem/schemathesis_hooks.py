"""What schemathesis must know of the API beyond its description (tools/ecosystem-openapi).

Named here is what no schema can say, each with its reason; everything else that the description
allows and the service refuses is a failure.
"""

import re

import jsonschema_rs
import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData

# Refusals that depend on more than the form of a request: code, and field where it matters.
BEYOND_SCHEMAS = {
    # Which texts, features and vectors have anything to count depends on the recipe.
    ("empty_document", None),
    # Ids, namespaces and prefixes are measured in bytes, not in characters.
    ("invalid_value", "id"),
    ("invalid_value", "namespace"),
    ("invalid_value", "prefix"),
    # A time that has passed.
    ("invalid_value", "expires_at"),
    # Options in the body and in the query string at one time, and an id from a text of which the
    # body has none.
    ("repeated_field", None),
    # The `next` of another page.
    ("invalid_value", "after"),
    ("invalid_value", "min_change"),
    # Weights whose sum is finite, components within single precision.
    ("invalid_value", "features"),
    ("invalid_value", "vector"),
    # 8 bytes for each fingerprint.
    ("packed_length", None),
    # Options for which packed replies have no place.
    ("invalid_value", "on_duplicate"),
    ("invalid_value", "touch"),
    ("invalid_value", "id_from"),
    # In a query string, of which no schema covers two parameters: numbers that must agree where no
    # sketch is compared.
    ("invalid_value", "min_numbers"),
    # The bytes of metadata.
    ("metadata_too_large", None),
}

# JSON Schema takes 3.0 for an integer. The service does not: a number of 64 bits that came as a float
# has lost bits.
FLOAT = re.compile(r"is the number -?[0-9.]+(e[+-]?[0-9]+)?; it takes .*(whole number|integer)")


@schemathesis.serializer("application/x-ndjson", "application/xhtml+xml", "text/html", "text/plain")
def raw(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def filter_case(context, case):
    """Drops requests with query parameters that exclude each other (x-dependencies), and those that
    wait a second for a change that nobody makes."""
    if re.fullmatch(r"0*[1-9][0-9]*", str((case.query or {}).get("min_sequence", ""))):
        return False
    rules = case.operation.definition.raw.get("x-dependencies", [])
    return not any(breaks(rule, case.query or {}) for rule in rules)


def breaks(rule, query):
    """Whether a query string breaks a rule of IDL4OAS, of the two forms that the description has."""
    if condition := re.fullmatch(r"IF (\w+)==(\w+) THEN NOT (\w+)", rule):
        flag, value, other = condition.groups()
        return other in query and str(query.get(flag)).lower() == value
    one, other = re.fullmatch(r"ZeroOrOne\((\w+), (\w+)\)", rule).groups()
    return one in query and other in query


def is_described(case):
    """Whether the description allows a body of JSON. Where schemathesis cannot make one that it allows,
    it sends another, such as 0 in place of an object, and expects it to be accepted."""
    content = case.operation.definition.raw.get("requestBody", {}).get("content", {})
    if case.media_type != "application/json" or case.media_type not in content:
        return True
    components = case.operation.schema.raw_schema["components"]
    schema = {**content[case.media_type]["schema"], "components": components}
    return jsonschema_rs.Draft202012Validator(schema).is_valid(case.body)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if response is None:
        return True
    # Null is as good as a missing field.
    if response.status_code < 300 and isinstance(case.body, dict) and None in case.body.values():
        return False
    if response.status_code not in (400, 413, 422):
        return True
    if isinstance(failure, RejectedPositiveData) and not is_described(case):
        return False
    problem = response.json()
    code, field = problem["code"], problem.get("field", "").split(".")[-1]
    is_float = FLOAT.search(problem["detail"]) is not None
    return not (is_float or {(code, None), (code, field)} & BEYOND_SCHEMAS)
