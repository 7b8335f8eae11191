{{ config(
  materialized='bucketed_incremental',
  incremental_strategy='microbatch',
  event_time='flight_date',
  batch_size='year',
  begin='2013-01-01',
  partition_by=['flight_year'],
  clustered_by=['dest'],
  sorted_by=['dest', 'flight_date'],
  buckets=2,
) }}

select
  flight_year,
  flight_date,
  dest,
  count(*) as flights,
  round(avg(arrival_delay), 1) as mean_arrival_delay
from {{ ref('stg_flights') }}
group by flight_year, flight_date, dest
