# The versions of the peers that `make peers-*` installs into .venv/peers.
HADOOP_VERSION := 3.5.0
SPARK_HADOOP_CLOUD_VERSION := 4.1.2
VERSITYGW_VERSION := v1.8.0
TRINO_VERSION := 476
