-- Milliseconds for which results are kept if the settings do not set it.
-- gives: RESULTS_KEPT
local RESULTS_KEPT = 3600000
