{{ config(materialized='table', file_format='parquet', tags=['weather']) }}

select
  origin,
  cast(ceil(visibility) as int) as visibility,
  count(*) as flights,
  count_if(is_cancelled) as cancelled_flights,
  round(avg(departure_delay), 1) as mean_departure_delay
from {{ ref('flights_with_weather') }}
where visibility is not null
group by origin, cast(ceil(visibility) as int)
