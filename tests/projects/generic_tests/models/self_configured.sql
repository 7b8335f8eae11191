{{ config(materialized='view') }}
select '{{ config.get("materialized") }}' as how
