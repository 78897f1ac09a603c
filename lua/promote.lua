-- The scheduled messages that have fallen due become ready. Returns how many.
local ready, scheduled, wake = KEYS[1], KEYS[2], KEYS[3]
local limit = ARGV[1]
-- @include lib/now
-- @include lib/record
-- @include lib/place
-- @include lib/due
-- @include lib/wake
local promoted = promote(limit)
if promoted > 0 then
  wake_one()
end
return promoted
