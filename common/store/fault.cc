#include "common/store/fault.h"

namespace audiogen::store {
namespace {

constexpr int kServerAccessDenied = 1045;
constexpr int kServerNoSuchTable = 1146;

FaultCode code_of(const DbError& error) {
  if (error.code() == kServerAccessDenied) {
    return FaultCode::kAccessDenied;
  }
  if (error.code() == kServerNoSuchTable) {
    return FaultCode::kNoTables;
  }
  switch (error.fault()) {
    case DbFault::kBusy:
      return FaultCode::kLocked;
    case DbFault::kConflict:
    case DbFault::kTimeout:
      return FaultCode::kBusy;
    case DbFault::kUnavailable:
      return FaultCode::kUnavailable;
    case DbFault::kUnknownOutcome:
      return FaultCode::kUnknownOutcome;
    case DbFault::kDuplicate:
    case DbFault::kConstraint:
    case DbFault::kUnexpected:
      break;
  }
  return FaultCode::kUnexpected;
}

}  // namespace

bool is_refusal(FaultCode code) {
  return code < FaultCode::kLocked;
}

Fault to_fault(const DbError& error) {
  return {.code = code_of(error), .detail = error.what()};
}

Fault to_fault(StoreFault fault) {
  switch (fault) {
    case StoreFault::kLocked:
      return {.code = FaultCode::kLocked};
    case StoreFault::kUnavailable:
      return {.code = FaultCode::kUnavailable};
    case StoreFault::kUnknownOutcome:
      break;
  }
  return {.code = FaultCode::kUnknownOutcome};
}

}  // namespace audiogen::store
