/* SPDX-License-Identifier: MIT */
/* The costs of the model: costs.def. */
#ifndef PLAY_COSTS_H
#define PLAY_COSTS_H

enum play_cost {
#define COST(name, value, source) NS_##name = (value),
#include "policy/costs.def"
#undef COST
};

#endif
