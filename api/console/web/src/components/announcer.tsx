import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { announcement } from "../state/announce";

/**
 * Reads out what is announced from now on. Every document has one, and every dialog: while one is open, readers know
 * of nothing else.
 */
export function Announcer() {
  const text = useSignal("");
  useEffect(() => {
    const before = announcement.peek();
    return announcement.subscribe((now) => {
      if (now !== before || text.peek() !== "") {
        text.value = now;
      }
    });
  }, []);
  return <div class="visually-hidden" role="status" aria-live="polite">{text}</div>;
}
