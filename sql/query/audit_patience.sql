-- $1 how long a statement of this audit may take, in milliseconds. The role's own limit (20 s) is made for
-- statements that hold rows; these hold none. Gone with the transaction.
SELECT set_config('statement_timeout', $1::int4::text, true);
