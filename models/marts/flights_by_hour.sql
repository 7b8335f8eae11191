{{ config(
  materialized='bucketed_table',
  bucket_hash='spark',
  clustered_by=['origin', 'hour_at'],
  buckets=6,
  tags=['weather'],
) }}

select
  origin,
  hour_at,
  flight_id,
  carrier,
  dest,
  is_cancelled,
  departure_delay
from {{ ref('stg_flights') }}
