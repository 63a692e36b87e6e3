// On which schemas of the database a program may serve. Programs of two releases run side by side
// while one replaces the other, and a migration is applied under the older ones.
#pragma once

namespace audiogen {

// What a database says of its migrations, to programs that need not know the newest of them.
struct SchemaLook {
  int complete = 0;     // The newest migration that was applied completely. 0: none.
  int begun = 0;        // The newest one that has begun.
  int serves_from = 0;  // Programs that know this migration may serve beside all that have begun.
};

// So many migrations may be ahead of a program, if they allow it.
inline constexpr int kMigrationsAhead = 1;

enum class SchemaFit {
  kFits,
  kTooOld,  // The database lacks what the program needs.
  kTooNew,  // The program does not know what it could break.
};

// Whether a program may serve whose newest migration is `program`. One that has begun counts like
// one that was applied: nobody knows how far it is.
constexpr SchemaFit schema_fit(const SchemaLook& schema, int program) {
  if (schema.complete < program) {
    return SchemaFit::kTooOld;
  }
  const bool known = schema.begun - program <= kMigrationsAhead && schema.serves_from <= program;
  return known ? SchemaFit::kFits : SchemaFit::kTooNew;
}

}  // namespace audiogen
