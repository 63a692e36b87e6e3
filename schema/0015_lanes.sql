-- Work is released by user: of whoever asks for much, a part waits parked until others of his tasks have ended.

-- 0 bulk 1 express 2 parked. A parked task has no hint, nobody claims it, and nothing looks at it before its deadline;
-- whatever ends another task of its user, or looks after the crowd, releases it.
ALTER TABLE tasks ADD COLUMN lane TINYINT UNSIGNED NOT NULL DEFAULT 0;

-- Counted under the balance's lock, like the credits: they change with the same transactions. Without defaults, so that
-- programs of the release before, which do not count, cannot write a balance any more: what they try fails, and is
-- tried again by the new ones. A count that has gone wrong would park its user's tasks for ever.
ALTER TABLE balances
  ADD COLUMN released INT UNSIGNED NOT NULL,        -- Open tasks that are not parked.
  ADD COLUMN parked INT UNSIGNED NOT NULL,          -- Open tasks that are.
  ADD COLUMN parked_after BIGINT UNSIGNED NOT NULL, -- The holds of all parked ones come after this ledger row.
  ADD COLUMN released_max INT UNSIGNED NOT NULL,    -- By the user's plan, as of his last creation; 0: no limit.
  ADD COLUMN crowded TINYINT UNSIGNED NOT NULL,     -- 1: some are parked. Changes seldom, so its index does.
  ADD KEY k_crowded (crowded);

-- Only open tasks have a wake_at.
UPDATE balances b JOIN (SELECT user_id, COUNT(*) AS n FROM tasks FORCE INDEX (k_wake)
  WHERE wake_at IS NOT NULL GROUP BY user_id) t ON t.user_id=b.user_id SET b.released=t.n;

-- How many tasks a worker works on at once, how many more it would take now, and how many it has ended so far.
ALTER TABLE workers
  ADD COLUMN places INT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN room INT UNSIGNED NOT NULL DEFAULT 0,
  ADD COLUMN ended BIGINT UNSIGNED NOT NULL DEFAULT 0;

-- One row: how many of a user's tasks are released at once. All transactions that release read it, so it is the same for
-- all programs from one moment to the next; one worker at a time writes it, when workers or crowds change, which with crowds is every second.
CREATE TABLE release_window (
  id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
  size INT UNSIGNED NOT NULL,
  crowds INT UNSIGNED NOT NULL DEFAULT 0,  -- Users who have parked tasks; 10,000: or more.
  tasks BIGINT UNSIGNED NOT NULL DEFAULT 0, -- Open tasks of these.
  pace INT UNSIGNED NOT NULL DEFAULT 0,    -- Tasks that end in 1000 s, of all users; 0: not known.
  CONSTRAINT release_window_one_row CHECK (id = 1)
) ENGINE=InnoDB;

INSERT INTO release_window (id, size) VALUES (1, 1000);
