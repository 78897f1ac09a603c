-- Makes the scheduled messages that are due ready. Returns how many.
-- drains
local limit = ARGV[1]
-- needs: promote, wake_one
local promoted = promote(limit)
if promoted > 0 then
  wake_one()
end
return promoted
