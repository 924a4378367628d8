-- Run once, when the server of compose.yaml starts with an empty volume: the catalog's database.
CREATE DATABASE lake;
