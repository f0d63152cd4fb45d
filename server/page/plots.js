// SPDX-License-Identifier: Apache-2.0
// The two plots of a kernel, drawn by Chart.js in the page's own colours.
"use strict";

const plots = (() => {
  const colours = ["#3b82f6", "#f59e0b", "#10b981", "#ec4899", "#8b5cf6", "#ef4444"];
  let live = [];

  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function scale(title, extra) {
    return { title: { display: true, text: title, color: variable("--quiet") }, ticks: { color: variable("--quiet") },
             grid: { color: variable("--line") }, ...extra };
  }

  /// A plot needs a table beside it for whoever cannot see it: `label` says where.
  function make(holder, label, config) {
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", label);
    holder.append(canvas);
    config.options = { responsive: true, maintainAspectRatio: false, animation: false, ...config.options };
    live.push(new Chart(canvas, config));
  }

  /// Bars with their 95% intervals as whiskers.
  const whiskers = {
    id: "whiskers",
    afterDatasetsDraw(chart) {
      const { ctx, scales } = chart;
      ctx.save();
      ctx.strokeStyle = variable("--text");
      chart.data.datasets.forEach((set, index) => {
        if (!set.spread || !chart.isDatasetVisible(index)) return;
        chart.getDatasetMeta(index).data.forEach((bar, at) => {
          const value = set.data[at], half = set.spread[at];
          if (value === null || !half) return;
          const low = scales.x.getPixelForValue(value - half), high = scales.x.getPixelForValue(value + half);
          ctx.beginPath();
          ctx.moveTo(low, bar.y); ctx.lineTo(high, bar.y);
          for (const x of [low, high]) { ctx.moveTo(x, bar.y - 3); ctx.lineTo(x, bar.y + 3); }
          ctx.stroke();
        });
      });
      ctx.restore();
    },
  };

  return {
    clear() { live.forEach((chart) => chart.destroy()); live = []; },

    /// rows: [{config, times: {device: {us, interval}}}], fastest first.
    times(holder, label, rows, devices) {
      holder.style.height = `${Math.max(220, 70 + rows.length * (10 + 14 * devices.length))}px`;
      make(holder, label, {
        type: "bar",
        data: {
          labels: rows.map((row) => row.config),
          datasets: devices.map((device, index) => ({
            label: device, backgroundColor: colours[index % colours.length],
            data: rows.map((row) => row.times[device] ? row.times[device].us : null),
            spread: rows.map((row) => row.times[device] ? row.times[device].interval : 0),
          })),
        },
        options: {
          indexAxis: "y",
          scales: { x: scale("median time, µs (whiskers: 95% interval)", { beginAtZero: true }),
                    y: { ticks: { color: variable("--text"), font: { family: "monospace", size: 11 } }, grid: { display: false } } },
          plugins: { legend: { labels: { color: variable("--text") } } },
        },
        plugins: [whiskers],
      });
    },

    /// rows: [{shape, losses: {"A on B": percent}}].
    losses(holder, label, rows, pairs) {
      make(holder, label, {
        type: "bar",
        data: {
          labels: rows.map((row) => row.shape),
          datasets: pairs.map((pair, index) => ({
            label: pair, backgroundColor: colours[index % colours.length],
            data: rows.map((row) => pair in row.losses ? row.losses[pair] : null),
          })),
        },
        options: {
          scales: { y: scale("slower than its own winner, %", { beginAtZero: true }),
                    x: { ticks: { color: variable("--text") }, grid: { display: false } } },
          plugins: { legend: { labels: { color: variable("--text") } } },
        },
      });
    },
  };
})();
