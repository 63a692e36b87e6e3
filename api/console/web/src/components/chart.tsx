// Credits over time as bars, and the same as a table: neither says what the other does not.
import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { credits, forDrawing, grouped } from "../lib/decimal";
import { plural } from "../lib/text";
import { bucketLabel, type Bucket } from "../lib/time";
import { axisTop, type Point } from "../lib/usage";
import { Choice, TableFrame } from "./basics";

const height = 160;
const axis = 44;
const foot = 22;
const labelWidth = 110;

/** "500", "2.5K", "100M": beside the axis there is room for no more. */
const short = new Intl.NumberFormat("en", { notation: "compact" });

/** The size of text in a browser that nobody has set: then units of the picture are pixels. */
const usualText = 16;

/** How wide an element is, now and whenever that changes; in units of the picture, which grow with the size of text. */
function useWidth(element: RefObject<HTMLElement>): number {
  const width = useSignal(720);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const unit = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / usualText;
      width.value = Math.max(120, Math.floor((entry?.contentRect.width ?? 0) / unit));
    });
    if (element.current !== null) {
      observer.observe(element.current);
    }
    return () => observer.disconnect();
  }, []);
  return width.value;
}

function describe(point: Point, bucket: Bucket): string {
  const open = point.complete ? "" : ", still being counted";
  return `${bucketLabel(point.start, bucket)}: ${credits(point.credits)}, ${plural(point.generations, "generation")}${open}`;
}

function Bars({ points, bucket, title }: { points: readonly Point[]; bucket: Bucket; title: string }) {
  const figure = useRef<HTMLElement>(null);
  const width = useWidth(figure);
  const top = axisTop(Math.max(0, ...points.map((point) => forDrawing(point.credits))));
  const step = (width - axis) / Math.max(points.length, 1);
  const labels = Math.ceil(points.length / Math.max(1, Math.floor(width / labelWidth)));
  const pointed = useSignal<number | undefined>(undefined);
  const shown = pointed.value === undefined ? undefined : points[pointed.value];
  const id = useId();
  return (
    <figure ref={figure} class="chart" aria-labelledby={id} onMouseLeave={() => { pointed.value = undefined; }}>
      <svg viewBox={`0 0 ${width} ${height + foot}`} height={`${(height + foot) / usualText}rem`} role="img" aria-label={`${title}. The same as a table: choose Table.`}>
        {[0, 0.5, 1].map((part) => (
          <g key={part} class="grid-line">
            <line x1={axis} x2={width} y1={height - part * (height - 12)} y2={height - part * (height - 12)} />
            <text x={axis - 8} y={height - part * (height - 12) + 4} text-anchor="end">{short.format(part * top)}</text>
          </g>
        ))}
        {points.map((point, index) => {
          const size = (forDrawing(point.credits) / top) * (height - 12);
          const x = axis + index * step;
          return (
            <g key={point.start} onMouseEnter={() => { pointed.value = index; }}>
              <rect class="reach" x={x} y={0} width={step} height={height} />
              <rect
                class={point.complete ? "bar" : "bar open"}
                x={x + step * 0.12} y={height - Math.max(size, point.complete ? 0 : 3)}
                width={step * 0.76} height={Math.max(size, point.complete ? 0 : 3)}
              />
              {index % labels === 0
                ? <text x={x + step / 2} y={height + 16} text-anchor={index === 0 ? "start" : "middle"}>{bucketLabel(point.start, bucket)}</text>
                : null}
            </g>
          );
        })}
      </svg>
      <figcaption id={id}>
        {shown === undefined
          ? <>{title} <span class="key-open" aria-hidden="true" /> dashed: still being counted</>
          : describe(shown, bucket)}
      </figcaption>
    </figure>
  );
}

function Twin({ points, bucket, title }: { points: readonly Point[]; bucket: Bucket; title: string }) {
  return (
    <TableFrame label={title}>
      <table>
        <caption class="visually-hidden">{title}</caption>
        <thead>
          <tr><th scope="col">{bucket === "day" ? "Day" : "Hour"} (UTC)</th><th scope="col" class="number">Generations</th><th scope="col" class="number">Credits</th></tr>
        </thead>
        <tbody>
          {[...points].reverse().map((point) => (
            <tr key={point.start}>
              <th scope="row">{bucketLabel(point.start, bucket)}{point.complete ? "" : " (still being counted)"}</th>
              <td class="number">{point.generations.toString()}</td>
              <td class="number">{grouped(point.credits)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

export function CreditsChart(chart: { points: readonly Point[]; bucket: Bucket; title: string }) {
  const view = useSignal<"chart" | "table">("chart");
  return (
    <div class="chart-box">
      <Choice
        label="Show as" value={view.value} options={[["chart", "Chart"], ["table", "Table"]]}
        onChange={(value) => { view.value = value; }}
      />
      {view.value === "chart" ? <Bars {...chart} /> : <Twin {...chart} />}
    </div>
  );
}
