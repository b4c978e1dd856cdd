-- Every outcome of these batches is acknowledged by Kafka: their rows go.
-- $1 owner · $2 batches
DELETE FROM batches WHERE id = ANY ($2::int8[]) AND owner = $1 AND isempty(unsent);
