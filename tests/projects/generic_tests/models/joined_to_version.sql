{{ config(materialized='view') }}
select l.k, r.size from {{ ref('keys') }} as l inner join {{ ref('sizes', version=2) }} as r on l.k = r.k
