-- How often a task's worker was lost: by then it may be the task that ends its workers, so it runs alone. Apart from
-- claims, which count what was tried, and of what a provider refused as well.

ALTER TABLE tasks ADD COLUMN lost_leases TINYINT UNSIGNED NOT NULL DEFAULT 0;
