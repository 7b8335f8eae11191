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
  temperature,
  wind_speed,
  precipitation,
  visibility
from {{ ref('stg_weather') }}
