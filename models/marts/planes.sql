{{ config(
  materialized='bucketed_table',
  clustered_by='tailnum',
  buckets=8,
  pre_hook="refresh table {{ ref('stg_planes') }}",
) }}

with flown as (
  select distinct tailnum
  from {{ ref('stg_flights') }}
  where tailnum is not null
)

select
  flown.tailnum,
  planes.built_in,
  planes.manufacturer,
  planes.model,
  planes.seats,
  planes.tailnum is not null as is_registered
from flown
left join {{ ref('stg_planes') }} as planes on flown.tailnum = planes.tailnum
