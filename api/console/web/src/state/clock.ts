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
