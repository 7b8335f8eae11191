select
  carrier,
  name
from {{ source('nycflights13', 'airlines') }}
