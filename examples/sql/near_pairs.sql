-- Pairs of exported fingerprints within a Hamming distance of 3, in SQL for DuckDB.
--
-- 64 bits are cut into 4 blocks of 16. Two fingerprints that differ in at most 3 bits have at least one block in
-- common (Manku, Jain, Das Sarma 2007), so a join by blocks finds every pair, and the count of the bits that
-- differ takes the others out. Each block is a table that is sorted by a hash, as the engine sees fit.
--
--   nearprint export -o documents.parquet
--   duckdb -c ".read near_pairs.sql"
with blocks as (
    select sequence, fingerprint, number, (fingerprint >> (16 * number)) & 65535 as block
    from 'documents.parquet', unnest([0, 1, 2, 3]) as numbers(number)
)
select distinct
    one.sequence as sequence_a,
    other.sequence as sequence_b,
    bit_count(xor(one.fingerprint, other.fingerprint)) as distance
from blocks as one
join blocks as other using (number, block)
where one.sequence < other.sequence
  and bit_count(xor(one.fingerprint, other.fingerprint)) <= 3
order by all;
