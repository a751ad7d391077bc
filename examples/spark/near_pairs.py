"""Near-duplicates among exported fingerprints of any number, on Apache Spark.

    nearprint export --all-namespaces -o documents.parquet
    spark-submit near_pairs.py documents.parquet out --distance 3

reads exports (a file, a folder or a pattern), and writes two folders of Parquet:

    out/pairs     namespace, fingerprint_a, fingerprint_b, distance: different fingerprints that are near each other
    out/groups    namespace, id, sequence, fingerprint, group: documents that have near-duplicates

They are those of `nearprint dedup documents.parquet`. Fingerprints are 16 hex digits; a group has the name of its
smallest one. Documents of different namespaces are not compared.
"""

import argparse
from itertools import combinations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


def hex_digits(column: str) -> Column:
    return F.lpad(F.lower(F.hex(column)), 16, "0")


def read(spark: SparkSession, path: str) -> DataFrame:
    """The documents of exports, their fingerprints as longs: Spark reads unsigned numbers of Parquet as decimals."""
    signed = f"if(fingerprint < {2**63}, fingerprint, fingerprint - {2**64})"
    return spark.read.parquet(path).select(
        F.coalesce("namespace", F.lit("")).alias("namespace"),  # nulls would not be equal in a join
        "id",
        "sequence",
        F.expr(signed).cast("long").alias("fingerprint"),
    )


def block_masks(distance: int, blocks: int) -> list[int]:
    """The masks that leave `distance` of the blocks of a fingerprint out, in all ways.

    Two fingerprints that differ in at most `distance` bits differ in at most so many blocks, and agree in the others:
    under at least one of the masks they are equal (Manku, Jain, Das Sarma 2007).
    """
    bounds = [64 * number // blocks for number in range(blocks + 1)]
    parts = [(1 << end) - (1 << begin) for begin, end in zip(bounds, bounds[1:])]
    masks = [sum(kept) for kept in combinations(parts, blocks - distance)]
    return [mask - 2**64 if mask >= 2**63 else mask for mask in masks]


def near_pairs(fingerprints: DataFrame, distance: int, blocks: int) -> DataFrame:
    """The pairs of different fingerprints of a namespace within a distance."""
    tables = [
        F.struct(F.lit(number).alias("table"), F.col("fingerprint").bitwiseAND(F.lit(mask).cast("long")).alias("key"))
        for number, mask in enumerate(block_masks(distance, blocks))
    ]
    rows = fingerprints.select("namespace", "fingerprint", F.inline(F.array(*tables)))
    one, other = (rows.withColumnRenamed("fingerprint", name) for name in ("fingerprint_a", "fingerprint_b"))
    differing = F.bit_count(F.col("fingerprint_a").bitwiseXOR(F.col("fingerprint_b")))
    return (
        one.join(other, ["namespace", "table", "key"])
        .where((F.col("fingerprint_a") < F.col("fingerprint_b")) & (differing <= distance))
        .select("namespace", "fingerprint_a", "fingerprint_b", differing.alias("distance"))
        .distinct()  # the nearest agree under several masks
        .withColumns({name: hex_digits(name) for name in ("fingerprint_a", "fingerprint_b")})
    )


def connected(pairs: DataFrame) -> DataFrame:
    """The group of each fingerprint that has a pair: the smallest one that pairs lead to.

    In each round a fingerprint takes the smallest group of its neighbours and of its group, until nothing changes.
    The group of the group is far ahead, so that long chains take few rounds.
    """
    forth = pairs.selectExpr("namespace", "fingerprint_a as fingerprint", "fingerprint_b as near")
    back = pairs.selectExpr("namespace", "fingerprint_b as fingerprint", "fingerprint_a as near")
    edges = forth.union(back).cache()
    groups = edges.groupBy("namespace", "fingerprint").agg(F.least("fingerprint", F.min("near")).alias("group"))
    while True:
        # Stored rows end the plan, which would grow with each round and soon take longer than the work. Where executors
        # come and go, take checkpoint() and a checkpoint directory instead.
        groups = groups.localCheckpoint()
        ways = edges.union(groups.selectExpr("namespace", "fingerprint", "group as near"))
        steps = groups.selectExpr("namespace", "fingerprint as near", "group as further")
        reached = ways.join(steps, ["namespace", "near"]).groupBy("namespace", "fingerprint").agg(F.min("further").alias("further"))
        joined = groups.join(reached, ["namespace", "fingerprint"]).localCheckpoint()
        groups = joined.select("namespace", "fingerprint", F.least("group", "further").alias("group"))
        if joined.where("further < group").isEmpty():
            return groups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", help="exports in Parquet")
    parser.add_argument("output", help="a folder that has no pairs and groups yet")
    parser.add_argument("--distance", type=int, default=3, help="the largest distance of two near-duplicates [3]")
    parser.add_argument("--blocks", type=int, help="how many blocks a fingerprint is cut into [distance + 1]")
    options = parser.parse_args()
    blocks = options.blocks or options.distance + 1
    if not 0 <= options.distance < blocks <= 64:
        parser.error("--distance must be 0 or more, and --blocks more than that and at most 64")
    spark = SparkSession.builder.appName("near-duplicates").getOrCreate()
    documents = read(spark, options.documents)
    one = ["namespace", "fingerprint"]

    # Different fingerprints are joined, not documents: a million equal documents are one row here, and would be
    # 5 * 10^11 pairs. Documents come back last, each with the group of its fingerprint.
    counted = documents.groupBy(one).agg(F.count("*").alias("documents"))
    near_pairs(counted, options.distance, blocks).write.parquet(f"{options.output}/pairs")

    groups = connected(spark.read.parquet(f"{options.output}/pairs"))
    counted, documents = (table.withColumn("fingerprint", hex_digits("fingerprint")) for table in (counted, documents))
    grouped = counted.join(groups, one, "left").where("documents > 1 or group is not null")
    grouped = grouped.select(*one, F.coalesce("group", "fingerprint").alias("group"))
    documents.join(grouped, one).write.parquet(f"{options.output}/groups")
    spark.stop()


if __name__ == "__main__":
    main()
