{{ config(materialized='view') }}
{{ join_of('keys', 'others') }}
