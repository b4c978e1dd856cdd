-- One look for the whole audit: every figure and finding is of the same instant, and nothing that commits
-- meanwhile can look half done.
BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;
