# The versions of the peers that `make peers-*` installs into .venv/peers.
HADOOP_VERSION := 3.5.0
SPARK_HADOOP_CLOUD_VERSION := 4.1.2
VERSITYGW_VERSION := v1.8.0
TRINO_VERSION := 476
HIVE_VERSION := 4.0.1
HIVE_HADOOP_VERSION := 3.3.6
TEZ_VERSION := 0.10.4
# For Spark 4.1.
ICEBERG_VERSION := 1.11.0
DELTA_VERSION := 4.1.0
COMET_VERSION := 1.2.0
# TPC-DS: the queries in the tests of this Spark, and the tables of Trino's generator.
SPARK_TESTS_VERSION := 4.1.0
TPCDS_VERSION := 1.4
