-- Run once, when the server of compose.yaml starts with an empty volume: the catalog beside Dagster's database.
CREATE DATABASE lake;
