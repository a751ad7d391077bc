-- The pairs of exported documents whose fingerprints differ in at most 3 bits, in SQL for DuckDB and DataFusion.
--
--   nearprint export --all-namespaces -o documents.parquet
--   duckdb -c ".read near_pairs.sql"
--   datafusion-cli -f near_pairs.sql

with documents as (
    select coalesce(namespace, '') as namespace, fingerprint, sequence,
        min(sequence) over (partition by namespace, fingerprint) as original
    from 'documents.parquet'
),
-- Different fingerprints are compared, not documents: a million equal documents are one row here.
fingerprints as (
    select namespace, fingerprint, original from documents where sequence = original
),
-- 64 bits are cut into 5 blocks of 13 (the last has 12). Two fingerprints that differ in at most 3 bits agree in at
-- least 2 of the blocks (Manku, Jain, Das Sarma 2007), so a join by each two blocks finds every pair.
tables (one, two) as (
    values (0, 13), (0, 26), (0, 39), (0, 52), (13, 26), (13, 39), (13, 52), (26, 39), (26, 52), (39, 52)
),
keys as (
    select namespace, fingerprint, original, one, two,
        ((fingerprint >> one) & 8191) * 8192 + ((fingerprint >> two) & 8191) as blocks
    from fingerprints cross join tables
),
candidates as (
    select a.original as original_a, b.original as original_b,
        -- a xor b: the engines have no name for it in common
        (a.fingerprint | b.fingerprint) - (a.fingerprint & b.fingerprint) as bits
    from keys as a
    join keys as b using (namespace, one, two, blocks)
    where a.original < b.original
),
-- How many bits are set, which DataFusion has no function for: sums of 2, 4 and 8 neighbours, then of the 8 bytes
-- (0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f; 256 to any power leaves 1 when it is divided by 255).
twos as (
    select *, bits - ((bits >> 1) & 6148914691236517205) as two_bits from candidates
),
fours as (
    select *, (two_bits & 3689348814741910323) + ((two_bits >> 2) & 3689348814741910323) as four_bits from twos
),
distances as (
    select *, cast(((four_bits + (four_bits >> 4)) & 1085102592571150095) % 255 as integer) as distance from fours
),
near as (
    select distinct original_a, original_b, distance from distances where distance <= 3
)
select least(a.sequence, b.sequence) as sequence_a, greatest(a.sequence, b.sequence) as sequence_b, distance
from near
join documents as a on a.original = original_a
join documents as b on b.original = original_b
union all
select a.sequence, b.sequence, 0
from documents as a
join documents as b using (original)
where a.sequence < b.sequence
order by sequence_a, sequence_b;
