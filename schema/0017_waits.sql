-- How long a further task waits before it begins: what could not end in time is refused when it is asked for.

-- In millionths, what part of the pace the bulk lane gets; in seconds, what a task takes once it has begun, and until a further one of
-- each lane begins. Written by the look that writes the pace, which says when it looked: what is older than some seconds
-- says nothing, and so does the pace of a program of the release before, which writes no looked_at. Such a one goes on
-- to refuse by what it knows.
ALTER TABLE release_window
  ADD COLUMN bulk_share INT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN takes INT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN express_wait INT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN bulk_wait INT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN looked_at DATETIME(6) NULL;
