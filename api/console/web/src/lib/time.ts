// Times for people. The server's are RFC 3339 in UTC; days and hours of usage are UTC and shown so.

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

/**
 * "just now", "5 min ago", "in 3 days": whole units. What has passed is rounded down, what is to come to the nearest: what
 * ends in seven days has a second less to go when that is read.
 */
export function relative(then: string, now: number): string {
  const seconds = Math.trunc((Date.parse(then) - now) / 1000);
  const size = Math.abs(seconds);
  if (size < minute) {
    return seconds > 0 ? "in less than a minute" : "just now";
  }
  const units = (unit: number) => (seconds > 0 ? Math.round(size / unit) : Math.floor(size / unit));
  const [count, unit] =
    units(minute) < 60 ? [units(minute), "min"]
    : units(hour) < 24 ? [units(hour), "h"]
    : [units(day), units(day) === 1 ? "day" : "days"];
  return seconds > 0 ? `in ${count} ${unit}` : `${count} ${unit} ago`;
}

const plainNumber = new Intl.NumberFormat("en");

const absoluteFormat = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit",
});
/** "20 Nov 2026, 23:10", in the time zone of whoever looks. */
export function absolute(time: string): string {
  return absoluteFormat.format(new Date(time));
}

const clockFormat = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});
export function clock(time: number): string {
  return clockFormat.format(new Date(time));
}

const dayFormat = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", timeZone: "UTC",
});
const hourFormat = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZone: "UTC",
});
export type Bucket = "hour" | "day";

/** "20 Nov" or "20 Nov, 23:00", UTC. */
export function bucketLabel(start: string, bucket: Bucket): string {
  return (bucket === "day" ? dayFormat : hourFormat).format(new Date(start));
}

export const bucketMilliseconds: Record<Bucket, number> = { hour: hour * 1000, day: day * 1000 };

/** The starts of the last `count` buckets, oldest first, the running one included. */
export function lastBuckets(bucket: Bucket, count: number, now: number): string[] {
  const size = bucketMilliseconds[bucket];
  const last = Math.floor(now / size) * size;
  return Array.from({ length: count }, (_, index) => rfc3339(last - (count - 1 - index) * size));
}

/** Without milliseconds where there are none. */
export function rfc3339(time: number): string {
  return new Date(time).toISOString().replace(".000Z", "Z");
}

/** "1.5 s", "1:05 min", "26 h 4 min" of seconds as the server wrote them: without its zeros, "12.000" is twelve thousand to many. */
export function duration(seconds: string): string {
  const whole = Math.floor(Number(seconds));
  return whole < minute ? `${Number(seconds)} s`
    : whole < hour ? `${Math.floor(whole / minute)}:${String(whole % minute).padStart(2, "0")} min`
    : `${plainNumber.format(Math.floor(whole / hour))} h ${Math.floor((whole % hour) / minute)} min`;
}

/** Was it used at most so many milliseconds ago? "Never" is not. */
export function within(time: string | null, milliseconds: number, now: number): boolean {
  return time !== null && now - Date.parse(time) <= milliseconds;
}

/** "2 days 3 h", "5 h 12 min", "4:05 min": what is left until then; undefined when that is over. */
export function remaining(until: string, now: number): string | undefined {
  const left = Math.ceil((Date.parse(until) - now) / 1000);
  if (left <= 0) {
    return undefined;
  }
  if (left < hour) {
    return `${Math.floor(left / minute)}:${String(left % minute).padStart(2, "0")} min`;
  }
  const days = Math.floor(left / day);
  const hours = Math.floor((left % day) / hour);
  return days === 0 ? `${hours} h ${Math.floor((left % hour) / minute)} min` : `${days} ${days === 1 ? "day" : "days"} ${hours} h`;
}

const staleAfter = 5 * minute * 1000;

/** Whether an answer of then may tell something else by now: minutes have passed, or another day has begun, here or in UTC. */
export function isStale(then: number, now: number): boolean {
  return now - then > staleAfter || Math.floor(then / aDay) !== Math.floor(now / aDay)
    || new Date(then).toDateString() !== new Date(now).toDateString();
}

/** What is left of a wait: "95 s", "50 min", "2 h 5 min"; whole minutes from two on. */
export function waiting(seconds: number): string {
  if (seconds <= 2 * minute) {
    return `${seconds} s`;
  }
  const minutes = Math.ceil(seconds / minute);
  const hours = Math.floor(minutes / 60);
  return hours === 0 ? `${minutes} min` : minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
}

/** For how long the secret before a rotation may go on working, in hours (ApiKeyRotation in the description). */
export const overlapMax = 168;

/** The hours that somebody typed; undefined where the service would refuse them. */
export function overlapHours(text: string): number | undefined {
  const value = /^\d{1,3}$/.test(text.trim()) ? Number(text) : Number.NaN;
  return value <= overlapMax ? value : undefined;
}

export const anHour = hour * 1000;
export const aDay = day * 1000;

/** The first moment of a day "2026-11-20" in the time zone of whoever looks; undefined of anything else. */
export function dayStart(text: string | null): string | undefined {
  return localDay(text, 0);
}

/** The first moment of the day after. */
export function dayEnd(text: string | null): string | undefined {
  return localDay(text, 1);
}

function localDay(text: string | null, later: number): string | undefined {
  const parts = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text ?? "");
  if (parts === null) {
    return undefined;
  }
  const start = new Date(Number(parts[1]), Number(parts[2]) - 1, Number(parts[3]) + later);
  return rfc3339(start.getTime());
}
