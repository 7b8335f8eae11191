{{ config(
  materialized='bucketed_table',
  partition_by=['flight_year', 'flight_month'],
  clustered_by=['carrier'],
  sorted_by=['carrier', 'flight_date'],
  buckets=4,
  write_tasks=4,
) }}

with days as (
  select
    flight_year,
    flight_month,
    flight_date,
    carrier,
    count(*) as flights,
    count_if(is_cancelled) as cancelled_flights,
    round(avg(arrival_delay), 1) as mean_arrival_delay
  from {{ ref('stg_flights') }}
  group by flight_year, flight_month, flight_date, carrier
)

select
  days.*,
  airlines.name as carrier_name
from days
inner join {{ ref('stg_airlines') }} as airlines on days.carrier = airlines.carrier
