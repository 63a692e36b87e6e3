-- What an API process did with the creations of the last minute, as it said last: how many it answered, and how many of
-- these with 503. Null: a program of the step before says nothing of it.

ALTER TABLE api_processes
  ADD COLUMN creations INT UNSIGNED NULL,
  ADD COLUMN refused INT UNSIGNED NULL;
