{{ config(
  materialized='bucketed_table',
  clustered_by=['tailnum'],
  sorted_by=['tailnum', 'hour_at'],
  buckets=8,
  options={'compression': 'zstd'},
  tblproperties={'domain': 'operations', 'contains_personal_data': false},
  post_hook='analyze table {{ this }} compute statistics for columns tailnum, hour_at',
  tags=['planes'],
) }}

select
  tailnum,
  hour_at,
  flight_id,
  flight_date,
  carrier,
  origin,
  dest,
  is_cancelled,
  departure_delay,
  arrival_delay,
  air_minutes,
  distance
from {{ ref('stg_flights') }}
