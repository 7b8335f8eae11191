"""The check of compiled SQL: what is planned, where, and what is made of the answers."""
