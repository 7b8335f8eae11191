{{ config(materialized='view') }}
select l.k, r.v from {{ ref('generic_tests', 'keys') }} as l inner join {{ source('plain', 'unbucketed') }} as r on l.v = r.v
