-- How many walks over all seats lib/tend ends before the setting `narrowed` is cleared: one may be half done when it is set.
-- gives: NARROWED
local NARROWED = 2
