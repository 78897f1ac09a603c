-- Takes messages back whose leases have lapsed, and judges them by the policy. Returns how many messages it checked; some
-- of them may have been settled before.
-- drains
local limit, seed, default_policy, lapse_error = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
-- needs: sweep, wake_one
local looked = sweep(limit)
if looked > 0 then
  wake_one()
end
return looked
