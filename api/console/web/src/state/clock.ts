import { useSignal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** The time, again every `milliseconds` while the component is there. */
export function useClock(milliseconds: number): Signal<number> {
  const now = useSignal(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => {
      now.value = Date.now();
    }, milliseconds);
    return () => window.clearInterval(timer);
  }, [milliseconds]);
  return now;
}

/** Whole seconds until then, counted down by itself; 0 when it is over or there is nothing to wait for. */
export function useSecondsUntil(then: number | undefined): number {
  const seconds = useSignal(left(then));
  useEffect(() => {
    seconds.value = left(then);
    if (then === undefined || seconds.peek() === 0) {
      return;
    }
    const timer = window.setInterval(() => {
      seconds.value = left(then);
      if (seconds.peek() === 0) {
        window.clearInterval(timer);
      }
    }, 250);
    return () => window.clearInterval(timer);
  }, [then]);
  return seconds.value;
}

function left(then: number | undefined): number {
  return then === undefined ? 0 : Math.max(0, Math.ceil((then - Date.now()) / 1000));
}
