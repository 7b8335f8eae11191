{{ config(materialized='ephemeral') }}
select k, v from {{ ref('keys') }}
where k > 10  -- the last line is a comment
