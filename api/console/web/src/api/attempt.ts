// Sends what somebody put together by hand, as it is, and tells everything of the answer.
import type { Attempt } from "../lib/attempt";
import { accountHeader } from "./client";
import { ApiFailure } from "./failure";

export interface Answered {
  status: number;
  headers: (readonly [string, string])[];
  type: string;
  text: string;       // As much of it as is shown; "" of audio.
  audio?: Blob;
  bytes: number;
  cut: boolean;       // There is more of it.
  milliseconds: number;
  over: boolean;      // False: more may come.
}

const shownMax = 200_000;

/**
 * With `key` as a program sends it, without one as this session. Tells each part of an answer that
 * comes piece by piece; answers when it has ended, or `signal` says so. Throws ApiFailure when there is
 * no answer.
 */
export async function send(attempt: Attempt, key: string | undefined, signal: AbortSignal, onPart: (answered: Answered) => void): Promise<void> {
  const begun = performance.now();
  const asked = key === undefined ? accountHeader() : { Authorization: `Bearer ${key}` };
  const headers: Record<string, string> = { ...attempt.headers, ...asked };
  if (attempt.body !== undefined) {
    headers["Content-Type"] = "application/json";
  }
  try {
    const response = await fetch((key === undefined ? "/console/api/v1" : "/api/v1") + attempt.path, {
      method: attempt.method, headers, body: attempt.body ?? null,
      credentials: key === undefined ? "same-origin" : "omit", cache: "no-store", redirect: "error", signal,
    });
    const type = response.headers.get("Content-Type") ?? "";
    let answered: Answered = {
      status: response.status, headers: [...response.headers], type, text: "", bytes: 0, cut: false,
      milliseconds: Math.round(performance.now() - begun), over: false,
    };
    const tell = (more: Partial<Answered>) => {
      answered = { ...answered, ...more, milliseconds: Math.round(performance.now() - begun) };
      onPart(answered);
    };
    if (type.startsWith("audio/")) {
      const audio = await response.blob();
      tell({ audio, bytes: audio.size, over: true });
      return;
    }
    const decoder = new TextDecoder();
    const reader = response.body?.getReader();
    for (let piece = await reader?.read(); piece !== undefined && !piece.done; piece = await reader?.read()) {
      const text = answered.text + decoder.decode(piece.value as Uint8Array, { stream: true });
      tell({ text: text.slice(0, shownMax), cut: answered.cut || text.length > shownMax, bytes: answered.bytes + (piece.value as Uint8Array).length });
    }
    tell({ over: true });
  } catch (thrown) {
    if (!signal.aborted) {
      throw thrown instanceof TypeError ? new ApiFailure({ kind: "offline" }) : thrown;
    }
  }
}
