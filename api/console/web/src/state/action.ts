import { useSignal, type Signal } from "@preact/signals";
import { type Failure, failureOf } from "../api/failure";

export interface Action {
  busy: Signal<boolean>;
  failure: Signal<Failure | undefined>;
  /** One at a time: a second press while the first is under way does nothing. */
  run: (work: () => Promise<void>) => Promise<void>;
}

/** Something a person does that the server may refuse. */
export function useAction(): Action {
  const busy = useSignal(false);
  const failure = useSignal<Failure | undefined>(undefined);
  const run = async (work: () => Promise<void>) => {
    if (busy.peek()) {
      return;
    }
    busy.value = true;
    failure.value = undefined;
    try {
      await work();
    } catch (thrown) {
      failure.value = failureOf(thrown);
    } finally {
      busy.value = false;
    }
  };
  return { busy, failure, run };
}
