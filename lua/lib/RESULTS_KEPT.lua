-- Milliseconds for which results are kept where the settings do not say it.
-- gives: RESULTS_KEPT
local RESULTS_KEPT = 3600000
