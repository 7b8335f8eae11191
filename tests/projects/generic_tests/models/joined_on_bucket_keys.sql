{{ config(materialized='view') }}
select l.k, r.v from {{ ref('recent') }} as l inner join {{ ref('others') }} as r on l.k = r.k
