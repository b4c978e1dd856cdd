-- The newest version applied and the oldest binary it works for; no row: the schema is empty.
SELECT version, oldest_ok FROM schema_version ORDER BY version DESC LIMIT 1;
