{{ config(
  materialized='bucketed_table',
  file_format='orc',
  clustered_by=['origin', 'dest'],
  sorted_by=[],
  buckets=4,
) }}

with routes as (
  select
    origin,
    dest,
    max(distance) as distance,
    count(*) as flights,
    count(distinct carrier) as carriers,
    round(avg(arrival_delay), 1) as mean_arrival_delay
  from {{ ref('stg_flights') }}
  group by origin, dest
)

select
  routes.*,
  airports.name as dest_name
from routes
left join {{ ref('stg_airports') }} as airports on routes.dest = airports.airport
