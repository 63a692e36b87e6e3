-- A key may have two secrets for a while: the one before the last rotation works until its time is over. Then it is
-- found no more, and the next rotation takes its place.

ALTER TABLE api_keys
  ADD COLUMN previous_hash BINARY(32) NULL,
  ADD COLUMN previous_until DATETIME(6) NULL,
  ADD UNIQUE KEY u_previous (previous_hash);
