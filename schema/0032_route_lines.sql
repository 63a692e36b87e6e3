-- What waits for a provider is told apart by route (common/domain/route.h): what each worker has waiting before a newcomer of each route, and how
-- long that is for all workers together. Else whoever has a provider that is free was refused for what others' provider has before it. A program of
-- the release before writes neither: what it has looked at has another `looked_at` than the routes, and those say nothing then.

ALTER TABLE workers ADD COLUMN route_lines VARCHAR(2000) CHARACTER SET ascii NOT NULL DEFAULT '';
ALTER TABLE release_window
  ADD COLUMN routes VARCHAR(2000) CHARACTER SET ascii NOT NULL DEFAULT '',
  ADD COLUMN routes_at DATETIME(6) NULL;

-- The route of each task, by what it asked for: so a status read of one that waits for its references need not look into the request. Null: of a
-- program of the release before.
ALTER TABLE tasks ADD COLUMN route TINYINT UNSIGNED NULL;
