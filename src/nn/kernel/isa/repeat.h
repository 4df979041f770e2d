/* SPDX-License-Identifier: Apache-2.0
 * X(0, ...) X(1, ...) ... for tiles of named registers. A macro cannot expand inside itself, so rows and columns have sets of
 * their own.
 */
#ifndef ISO_NN_KERNEL_REPEAT_H
#define ISO_NN_KERNEL_REPEAT_H

#define ISO_ROWS_1(X, ...) X(0, __VA_ARGS__)
#define ISO_ROWS_2(X, ...) ISO_ROWS_1(X, __VA_ARGS__) X(1, __VA_ARGS__)
#define ISO_ROWS_3(X, ...) ISO_ROWS_2(X, __VA_ARGS__) X(2, __VA_ARGS__)
#define ISO_ROWS_4(X, ...) ISO_ROWS_3(X, __VA_ARGS__) X(3, __VA_ARGS__)
#define ISO_ROWS_5(X, ...) ISO_ROWS_4(X, __VA_ARGS__) X(4, __VA_ARGS__)
#define ISO_ROWS_6(X, ...) ISO_ROWS_5(X, __VA_ARGS__) X(5, __VA_ARGS__)
#define ISO_ROWS_8(X, ...) ISO_ROWS_6(X, __VA_ARGS__) X(6, __VA_ARGS__) X(7, __VA_ARGS__)
#define ISO_ROWS_12(X, ...) \
    ISO_ROWS_8(X, __VA_ARGS__) X(8, __VA_ARGS__) X(9, __VA_ARGS__) X(10, __VA_ARGS__) X(11, __VA_ARGS__)
#define ISO_ROWS_16(X, ...) \
    ISO_ROWS_12(X, __VA_ARGS__) X(12, __VA_ARGS__) X(13, __VA_ARGS__) X(14, __VA_ARGS__) \
    X(15, __VA_ARGS__)
#define ISO_ROWS_24(X, ...) \
    ISO_ROWS_16(X, __VA_ARGS__) X(16, __VA_ARGS__) X(17, __VA_ARGS__) X(18, __VA_ARGS__) \
    X(19, __VA_ARGS__) X(20, __VA_ARGS__) X(21, __VA_ARGS__) X(22, __VA_ARGS__) X(23, __VA_ARGS__)

#define ISO_COLUMNS_1(X, ...) X(0, __VA_ARGS__)
#define ISO_COLUMNS_2(X, ...) ISO_COLUMNS_1(X, __VA_ARGS__) X(1, __VA_ARGS__)
#define ISO_COLUMNS_3(X, ...) ISO_COLUMNS_2(X, __VA_ARGS__) X(2, __VA_ARGS__)
#define ISO_COLUMNS_4(X, ...) ISO_COLUMNS_3(X, __VA_ARGS__) X(3, __VA_ARGS__)
#define ISO_COLUMNS_8(X, ...) \
    ISO_COLUMNS_4(X, __VA_ARGS__) X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__) X(7, __VA_ARGS__)

#endif
