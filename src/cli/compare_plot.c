/* SPDX-License-Identifier: Apache-2.0
 * A comparison as a picture (compare.h): accuracy over time, one line a policy.
 *
 * The accuracy axis is that of the error, logarithmic: what tells policies apart happens between 0.9 and 1, and the
 * way from 0.97 to 0.98 is as long as that from 0.955 to 0.97. Drawn with cairo, which makes SVG and PNG of one set of
 * strokes; text is drawn as outlines, so a file looks the same everywhere. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "cli/compare.h"
#include "cli/output.h"

#ifndef ISO_CAIRO

int cli_plot_check(const char *path, iso_error *e)
{
    return iso_error_set(e, ISO_E_UNSUPPORTED,
                         "--plot %s: this build cannot draw, it was made without cairo (Debian: libcairo2-dev)", path);
}

int cli_comparison_plot(const cli_comparison *c, const char *path, cli_axis time, iso_error *e)
{
    (void)c, (void)time;
    return cli_plot_check(path, e);
}

#else

#include <cairo-svg.h>
#include <cairo.h>

#define GRID 200u   /* points a line is drawn through */
#define PNG_SCALE 2 /* pixels of a PNG for one of the drawing */
#define WIDTH 1000.0
#define LEFT 66.0
#define TOP 54.0
#define PLOT_HEIGHT 440.0
#define BOTTOM 58.0
#define LEGEND_GAP 22.0
#define LEGEND_ROW 40.0
#define AUTO_LOG 4.0          /* ends so many times apart: a logarithmic time axis */
#define BEST_ACCURACY 0.99995 /* the axis ends here: an error of 0 has no logarithm */

/* A policy's line. */
typedef struct curve {
    const cli_result *result; /* its first run */
    size_t runs;
    double first, last; /* seconds that all its runs cover */
    double seconds[GRID], mean[GRID], low[GRID], high[GRID];
    double final_accuracy, efficiency; /* means */
} curve;

typedef struct chart {
    const cli_comparison *comparison;
    curve *curve;
    size_t curves;
    bool log_time;
    double x0, x1, y0, y1;           /* of the axes, transformed */
    double left, top, width, height; /* of the plot */
    double legend_x, page_height;
    cairo_t *cr;
} chart;

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n > m && !strcasecmp(path + n - m, end);
}

int cli_plot_check(const char *path, iso_error *e)
{
    if (ends_with(path, ".svg") || ends_with(path, ".png"))
        return ISO_OK;
    return iso_error_set(e, ISO_E_ARGUMENT, "--plot %s: the file's name must end with .svg or .png", path);
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* Accuracy of a run at a time between its first and last point, on the straight line between neighbours. */
static double at_time(const cli_result *r, double seconds)
{
    size_t i = 0;
    while (i + 1 < r->points && r->point[i + 1].seconds < seconds)
        i++;
    if (i + 1 == r->points || seconds <= r->point[i].seconds)
        return r->point[i].accuracy;
    const cli_point *a = &r->point[i], *b = a + 1;
    double way = b->seconds - a->seconds;
    return way > 0 ? a->accuracy + (b->accuracy - a->accuracy) * (seconds - a->seconds) / way : b->accuracy;
}

static double value_of_time(const chart *g, double seconds)
{
    return g->log_time ? log10(seconds) : seconds;
}

static double value_of_accuracy(double accuracy)
{
    return -log10(1 - fmin(fmax(accuracy, 0), BEST_ACCURACY));
}

static void resample(const chart *g, curve *k)
{
    for (unsigned i = 0; i < GRID; i++) {
        double part = (double)i / (GRID - 1);
        double a = value_of_time(g, k->first), b = value_of_time(g, k->last), at = a + (b - a) * part;
        k->seconds[i] = g->log_time ? pow(10, at) : at;
        k->mean[i] = 0;
        k->low[i] = 1;
        k->high[i] = 0;
        for (size_t r = 0; r < k->runs; r++) {
            double value = at_time(&k->result[r], k->seconds[i]);
            k->mean[i] += value / (double)k->runs;
            k->low[i] = fmin(k->low[i], value);
            k->high[i] = fmax(k->high[i], value);
        }
    }
}

/* The curves of policies whose runs all have points. */
static int make_curves(chart *g, iso_error *e)
{
    const cli_comparison *c = g->comparison;
    g->curve = calloc(c->count ? c->count : 1, sizeof *g->curve);
    if (!g->curve)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for a plot");
    for (size_t i = 0, end; i < c->count; i = end) {
        end = cli_policy_end(c, i);
        curve k = {.result = &c->result[i], .runs = end - i, .first = 0, .last = INFINITY};
        bool good = true;
        for (size_t r = i; r < end; r++) {
            const cli_result *one = &c->result[r];
            good &= one->points > 0;
            if (!good)
                break;
            k.first = fmax(k.first, one->point[0].seconds);
            k.last = fmin(k.last, one->point[one->points - 1].seconds);
            k.final_accuracy += one->test_accuracy / (double)k.runs;
            k.efficiency += one->efficiency / (double)k.runs;
        }
        if (good && k.last >= k.first)
            g->curve[g->curves++] = k;
    }
    if (g->curves)
        return ISO_OK;
    return iso_error_set(e, ISO_E_ARGUMENT, "--plot: no run has accuracies on the way; is there a test set?");
}

static void choose_axes(chart *g, cli_axis time)
{
    double first = INFINITY, last = 0, shortest = INFINITY;
    for (size_t i = 0; i < g->curves; i++) {
        first = fmin(first, g->curve[i].first);
        last = fmax(last, g->curve[i].last);
        shortest = fmin(shortest, g->curve[i].last);
    }
    g->log_time = first > 0 && (time == CLI_AXIS_LOG || (time == CLI_AXIS_AUTO && last > AUTO_LOG * shortest));
    g->x0 = g->log_time ? log10(first) : 0;
    g->x1 = g->log_time ? log10(last) : last;
    if (!(g->x1 > g->x0))
        g->x1 = g->x0 + 1;
    g->x1 += (g->x1 - g->x0) * 0.02;
    g->y0 = INFINITY;
    g->y1 = 0;
    for (size_t i = 0; i < g->curves; i++) {
        resample(g, &g->curve[i]);
        for (unsigned k = 0; k < GRID; k++) {
            g->y0 = fmin(g->y0, value_of_accuracy(g->curve[i].low[k]));
            g->y1 = fmax(g->y1, value_of_accuracy(g->curve[i].high[k]));
        }
    }
    for (unsigned t = 0; t < g->comparison->targets; t++)
        g->y1 = fmax(g->y1, value_of_accuracy(g->comparison->target[t]));
    if (!(g->y1 > g->y0))
        g->y1 = g->y0 + 0.5;
    double room = (g->y1 - g->y0) * 0.05;
    g->y0 = g->y0 < 0.1 ? 0 : g->y0 - room;
    g->y1 += room;
}

/* ---- strokes ------------------------------------------------------------------------------------------- */

static double x_of(const chart *g, double seconds)
{
    return g->left + g->width * (value_of_time(g, seconds) - g->x0) / (g->x1 - g->x0);
}

static double y_of(const chart *g, double accuracy)
{
    return g->top + g->height * (g->y1 - value_of_accuracy(accuracy)) / (g->y1 - g->y0);
}

/* A palette that colour-blind readers can tell apart (Okabe and Ito), without its yellow; then the same, dashed. */
static void set_colour(const chart *g, size_t index, double alpha)
{
    static const unsigned char colour[][3] = {{0, 114, 178}, {213, 94, 0},   {0, 158, 115}, {204, 121, 167},
                                              {230, 159, 0}, {86, 180, 233}, {60, 60, 60}};
    static const double dash[][2] = {{7, 4}, {2, 3}};
    const size_t colours = sizeof colour / sizeof *colour, turn = index / colours;
    const unsigned char *k = colour[index % colours];
    cairo_set_source_rgba(g->cr, k[0] / 255.0, k[1] / 255.0, k[2] / 255.0, alpha);
    cairo_set_dash(g->cr, dash[turn ? (turn - 1) % 2 : 0], turn ? 2 : 0, 0);
}

static void set_grey(const chart *g, double level)
{
    cairo_set_source_rgb(g->cr, level, level, level);
    cairo_set_dash(g->cr, NULL, 0, 0);
}

static double text_width(const chart *g, const char *text, double size)
{
    cairo_text_extents_t t;
    cairo_set_font_size(g->cr, size);
    cairo_text_extents(g->cr, text, &t);
    return t.x_advance;
}

/* anchor: 0 begins at x, 0.5 has its middle there, 1 ends there. */
static void put_text(const chart *g, double x, double y, double anchor, double size, const char *text)
{
    double width = text_width(g, text, size);
    cairo_move_to(g->cr, x - anchor * width, y);
    cairo_show_text(g->cr, text);
}

static void draw_line(const chart *g, double x0, double y0, double x1, double y1)
{
    cairo_move_to(g->cr, x0, y0);
    cairo_line_to(g->cr, x1, y1);
    cairo_stroke(g->cr);
}

/* ---- axes ---------------------------------------------------------------------------------------------- */

static void draw_time_tick(const chart *g, double seconds)
{
    char label[ISO_NUMBER_TEXT];
    double x = x_of(g, seconds);
    if (x < g->left - 0.5 || x > g->left + g->width + 0.5)
        return;
    set_grey(g, 0.9);
    draw_line(g, x, g->top, x, g->top + g->height);
    set_grey(g, 0.25);
    iso_print_double(label, seconds);
    put_text(g, x, g->top + g->height + 18, 0.5, 12, label);
}

static void draw_time_axis(const chart *g)
{
    static const double steps[] = {1, 2, 5, 10};
    if (g->log_time) {
        int from = (int)floor(g->x0), to = (int)ceil(g->x1);
        unsigned kinds = g->x1 - g->x0 > 4 ? 1 : 3; /* 1, or 1 2 5 a decade */
        for (int decade = from; decade <= to; decade++)
            for (unsigned i = 0; i < kinds; i++)
                draw_time_tick(g, decade < 0 ? steps[i] / pow(10, -decade) : steps[i] * pow(10, decade));
    } else {
        double rough = g->x1 / 8, unit = pow(10, floor(log10(rough))), step = unit * 10;
        for (unsigned i = 4; i-- > 0;)
            step = steps[i] * unit >= rough ? steps[i] * unit : step;
        for (unsigned i = 0; i * step <= g->x1; i++)
            draw_time_tick(g, i * step);
    }
}

static void draw_accuracy_axis(const chart *g)
{
    static const double round_ones[] = {0,    0.5,  0.9,   0.99,  0.999,  0.8, 0.95,  0.98,  0.7,
                                        0.97, 0.96, 0.995, 0.998, 0.9995, 0.2, 0.985, 0.993, 0.85};
    double placed[CLI_TARGETS_MAX + sizeof round_ones / sizeof *round_ones];
    unsigned count = 0;
    const cli_comparison *c = g->comparison;
    for (unsigned i = 0; i < c->targets + sizeof round_ones / sizeof *round_ones; i++) {
        bool target = i < c->targets, free = true;
        double accuracy = target ? c->target[i] : round_ones[i - c->targets], y = y_of(g, accuracy);
        for (unsigned k = 0; k < count; k++)
            free &= fabs(placed[k] - y) >= 17;
        if ((!free && !target) || y < g->top - 0.5 || y > g->top + g->height + 0.5)
            continue;
        placed[count++] = y;
        set_grey(g, target ? 0.55 : 0.9);
        if (target)
            cairo_set_dash(g->cr, (const double[]){4, 3}, 2, 0);
        draw_line(g, g->left, y, g->left + g->width, y);
        set_grey(g, 0.25);
        char label[ISO_NUMBER_TEXT];
        iso_print_double(label, accuracy);
        if (free)
            put_text(g, g->left - 8, y + 4, 1, 12, label);
    }
}

static void draw_frame(const chart *g, bool virtual_time)
{
    char text[128];
    set_grey(g, 0.25);
    cairo_set_line_width(g->cr, 1);
    draw_line(g, g->left, g->top, g->left, g->top + g->height);
    draw_line(g, g->left, g->top + g->height, g->left + g->width, g->top + g->height);
    snprintf(text, sizeof text, "%s, seconds%s", virtual_time ? "virtual time of training" : "time of training",
             g->log_time ? " (logarithmic)" : "");
    put_text(g, g->left + g->width / 2, g->top + g->height + 42, 0.5, 13, text);
    cairo_save(g->cr);
    cairo_translate(g->cr, 18, g->top + g->height / 2);
    cairo_rotate(g->cr, -M_PI / 2);
    put_text(g, 0, 0, 0.5, 13, "test accuracy (error logarithmic)");
    cairo_restore(g->cr);
}

/* ---- curves and legend --------------------------------------------------------------------------------- */

static void draw_band(const chart *g, size_t index)
{
    const curve *k = &g->curve[index];
    if (k->runs < 2)
        return;
    for (unsigned i = 0; i < GRID; i++)
        cairo_line_to(g->cr, x_of(g, k->seconds[i]), y_of(g, k->low[i]));
    for (unsigned i = GRID; i-- > 0;)
        cairo_line_to(g->cr, x_of(g, k->seconds[i]), y_of(g, k->high[i]));
    cairo_close_path(g->cr);
    set_colour(g, index, 0.15);
    cairo_fill(g->cr);
}

static void draw_curve(const chart *g, size_t index)
{
    const curve *k = &g->curve[index];
    for (unsigned i = 0; i < GRID; i++)
        cairo_line_to(g->cr, x_of(g, k->seconds[i]), y_of(g, k->mean[i]));
    set_colour(g, index, 1);
    cairo_set_line_width(g->cr, 2.2);
    cairo_set_line_join(g->cr, CAIRO_LINE_JOIN_ROUND);
    cairo_stroke(g->cr);
    cairo_arc(g->cr, x_of(g, k->last), y_of(g, k->mean[GRID - 1]), 3.6, 0, 2 * M_PI);
    cairo_fill(g->cr);
}

/* A text that is too wide for the legend in a smaller size. */
static void put_fitting(const chart *g, double x, double y, double size, double width, const char *text)
{
    while (size > 7 && text_width(g, text, size) > width)
        size -= 0.5;
    put_text(g, x, y, 0, size, text);
}

static void draw_legend(const chart *g)
{
    for (size_t i = 0; i < g->curves; i++) {
        const curve *k = &g->curve[i];
        double y = g->top + 10 + LEGEND_ROW * (double)i, x = g->legend_x;
        char text[160];
        set_colour(g, i, 1);
        cairo_set_line_width(g->cr, 3);
        draw_line(g, x, y, x + 26, y);
        set_grey(g, 0.1);
        put_fitting(g, x + 34, y + 4, 13, WIDTH - x - 40, k->result->sync);
        int n = snprintf(text, sizeof text, "%s at the end", cli_fixed(k->final_accuracy, 4));
        if (isfinite(k->efficiency))
            snprintf(text + n, sizeof text - (size_t)n, ", E %s", cli_fixed(k->efficiency, 3));
        set_grey(g, 0.45);
        put_fitting(g, x + 34, y + 19, 11, WIDTH - x - 40, text);
    }
}

/* Room for the legend by the longest name, then the plot takes what is left. */
static void lay_out(chart *g)
{
    double widest = 150;
    for (size_t i = 0; i < g->curves; i++)
        widest = fmax(widest, text_width(g, g->curve[i].result->sync, 13));
    g->left = LEFT;
    g->top = TOP;
    g->legend_x = WIDTH - fmin(widest, 260) - 46;
    g->width = g->legend_x - LEGEND_GAP - LEFT;
    g->height = g->page_height - TOP - BOTTOM;
}

static void draw(chart *g)
{
    const cli_comparison *c = g->comparison;
    cairo_select_font_face(g->cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    lay_out(g);
    cairo_set_source_rgb(g->cr, 1, 1, 1);
    cairo_paint(g->cr);
    cairo_set_line_width(g->cr, 1);
    draw_time_axis(g);
    draw_accuracy_axis(g);
    draw_frame(g, c->virtual_time);
    cairo_save(g->cr);
    cairo_rectangle(g->cr, g->left, g->top - 4, g->width + 6, g->height + 4);
    cairo_clip(g->cr);
    for (size_t i = 0; i < g->curves; i++)
        draw_band(g, i);
    for (size_t i = g->curves; i-- > 0;)
        draw_curve(g, i);
    cairo_restore(g->cr);
    draw_legend(g);
    set_grey(g, 0.1);
    cairo_select_font_face(g->cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    double size = 15;
    while (size > 8 && text_width(g, c->title, size) > WIDTH - LEFT - 10)
        size -= 0.5;
    put_text(g, LEFT, 30, 0, size, c->title);
}

/* ---- files --------------------------------------------------------------------------------------------- */

int cli_comparison_plot(const cli_comparison *c, const char *path, cli_axis time, iso_error *e)
{
    chart g = {.comparison = c};
    int r = cli_plot_check(path, e);
    if (!r)
        r = make_curves(&g, e);
    if (r) {
        free(g.curve);
        return r;
    }
    choose_axes(&g, time);
    bool png = ends_with(path, ".png");
    g.page_height = fmax(TOP + PLOT_HEIGHT + BOTTOM, TOP + LEGEND_ROW * (double)g.curves + 20);
    cairo_surface_t *s =
        png ? cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)WIDTH * PNG_SCALE, (int)g.page_height * PNG_SCALE)
            : cairo_svg_surface_create(path, WIDTH, g.page_height);
    if (!png)
        cairo_svg_surface_set_document_unit(s, CAIRO_SVG_UNIT_PX);
    g.cr = cairo_create(s);
    if (png)
        cairo_scale(g.cr, PNG_SCALE, PNG_SCALE);
    draw(&g);
    int status = (int)cairo_status(g.cr);
    cairo_destroy(g.cr);
    cairo_surface_flush(s);
    if (!status && png)
        status = (int)cairo_surface_write_to_png(s, path);
    cairo_surface_finish(s);
    if (!status)
        status = (int)cairo_surface_status(s);
    cairo_surface_destroy(s);
    free(g.curve);
    return status ? iso_error_set(e, ISO_E_IO, "%s: %s", path, cairo_status_to_string((cairo_status_t)status)) : ISO_OK;
}

#endif
